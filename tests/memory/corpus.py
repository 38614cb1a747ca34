"""A small memory, as an assistant collects it in a year, and questions with their answers.

The questions are worded as people ask: with synonyms, names and filler words.
"""

from __future__ import annotations

DOCUMENTS: dict[str, str] = {
    "people/maya.md": """# Maya
Maya: I adopted a greyhound from the shelter last spring, her name is Biscuit.
Maya: My daughter starts violin lessons with Mr Okafor on Thursday afternoons.
Maya: I cannot eat shellfish, one shrimp sends me to the hospital.
Maya: We finally paid off the mortgage on the cottage near Galway.
Maya: My passport runs out in March, I must renew it before the trip.
Maya: I quit my job at the bank and opened a pottery studio.
""",
    "people/tomas.md": """# Tomas
Tomas: I broke my wrist skiing and the cast comes off next week.
Tomas: My brother Emil moved to Lisbon to work as a pastry chef.
Tomas: I have been learning Japanese for the interview with the Osaka office.
Tomas: We named the new kitten Pixel because of the spots.
Tomas: The landlord raised our rent by two hundred a month.
Tomas: I ran the Prague half marathon in under two hours.
""",
    "projects/atlas.md": """# Atlas
The nightly backup of Atlas goes to the bucket atlas-cold in Frankfurt.
Deploys of Atlas are frozen on Fridays because support is thin at weekends.
The staging database of Atlas is wiped every Sunday at 04:00.
Priya owns the billing service of Atlas and must approve schema changes.
The customer portal of Atlas moved from AngularJS to Svelte.
Error budget of Atlas for the quarter is 43 minutes, 12 were used in July.
""",
    "projects/harbor.md": """# Harbor
Harbor keeps invoices for ten years, as the tax office demands.
The contract of Harbor with the courier ends in November and renews by itself.
Harbor sends reminders to debtors after 14, 30 and 45 days.
The legacy importer of Harbor chokes on files with a byte order mark.
Nadia wrote the fraud rules of Harbor and left the company in May.
Harbor is billed to cost centre 7731.
""",
    "tickets/august.md": """# Tickets
OPS-4411: disk of web-07 was full, old logs were removed.
OPS-4412: disk of web-09 was full, the volume was enlarged.
OPS-4417: memory of db-02 was exhausted by a report, the report was moved.
OPS-4420: memory of db-05 was exhausted by an index build.
OPS-4431: network of edge-01 flapped, the cable was replaced.
OPS-4432: network of edge-03 flapped, the firmware was updated.
OPS-4440: disk of web-11 was full, a retention rule was added.
""",
    "inventory/rooms.md": """# Rooms
Room 2.14 has eight seats and a whiteboard.
Room 2.15 has twelve seats and a projector.
Room 3.02 has four seats and a phone.
Room 3.07 has twenty seats and two screens.
Room 4.11 has six seats and a camera.
""",
    "versions.md": """# Versions
Parser 3.1.4 dropped support for Python 3.8.
Parser 3.2.0 added streaming of large files.
Parser 4.0.0 renamed parse_all to read.
Scheduler 1.8.2 fixed the leap second.
Scheduler 1.9.0 added cron expressions with seconds.
Gateway 0.12.5 limits uploads to 50 megabytes.
""",
    "learnings/shell.md": """# Shell
Use rsync with --partial for the slow link to the Nairobi site.
The VPN drops idle connections after ten minutes, so keep a heartbeat.
Never restart the print server during payroll.
The certificate for the intranet is renewed by hand every June.
""",
}

#: Each question with a part of the line that answers it.
QUESTIONS: list[tuple[str, str]] = [
    ("What is the name of Maya's dog?", "Biscuit"),
    ("Which seafood is Maya allergic to?", "shellfish"),
    ("Who teaches music to Maya's child?", "violin"),
    ("What does Maya do for a living now?", "pottery"),
    ("When does Maya need new travel documents?", "passport"),
    ("Does Maya still owe money for her house?", "mortgage"),
    ("What injury did Tomas have?", "broke my wrist"),
    ("Where does Tomas's sibling live?", "Lisbon"),
    ("Which language is Tomas studying?", "Japanese"),
    ("What is the cat of Tomas called?", "Pixel"),
    ("How much more does Tomas pay for his flat?", "landlord"),
    ("Which race did Tomas finish?", "marathon"),
    ("Where are the backups of Atlas stored?", "atlas-cold"),
    ("On which day can we not release Atlas?", "frozen on Fridays"),
    ("When is the Atlas test database erased?", "wiped every Sunday"),
    ("Who has to sign off changes of the tables in Atlas?", "Priya"),
    ("What framework does the Atlas portal use?", "Svelte"),
    ("How much downtime may Atlas still have this quarter?", "Error budget"),
    ("How long must Harbor store bills?", "ten years"),
    ("When does the Harbor delivery agreement expire?", "courier"),
    ("How often are people who owe money to Harbor contacted?", "reminders"),
    ("Which files break the old Harbor importer?", "byte order mark"),
    ("Who built fraud detection for Harbor?", "Nadia"),
    ("Which cost centre pays for Harbor?", "7731"),
    ("What was done for OPS-4417?", "OPS-4417"),
    ("What happened in OPS-4432?", "OPS-4432"),
    ("What was wrong with web-09?", "OPS-4412"),
    ("How was the full disk of web-11 dealt with?", "OPS-4440"),
    ("Why did db-05 run out of memory?", "OPS-4420"),
    ("What is in room 2.15?", "Room 2.15"),
    ("How many people fit into room 3.02?", "Room 3.02"),
    ("Which equipment does 4.11 have?", "Room 4.11"),
    ("What changed in parser 3.2.0?", "Parser 3.2.0"),
    ("What is parse_all called today?", "Parser 4.0.0"),
    ("What is new in scheduler 1.9.0?", "Scheduler 1.9.0"),
    ("How large can an upload through the gateway be?", "Gateway"),
    ("How do I copy files to Kenya over the bad connection?", "rsync"),
    ("Why does my VPN session get lost?", "heartbeat"),
    ("When must the printer not be rebooted?", "payroll"),
    ("How is the TLS certificate of the intranet extended?", "renewed by hand"),
]
