"""A hundred notes and, for each, a question that a person would ask in other words.

They were written before anything was tuned on them. Every second pair is kept aside: weights are
chosen on `CHOSEN_ON` and judged on `KEPT_ASIDE`.
"""

from __future__ import annotations

#: By document: its notes, one to a line, each with a question that it answers.
NOTES: dict[str, list[tuple[str, str]]] = {
    "handbook/people.md": [
        (
            "Everyone has 28 days of annual leave, and five may be carried into the next year.",
            "How much time off do I get?",
        ),
        (
            "Salaries are paid on the 25th of each month.",
            "When does the money arrive in my account?",
        ),
        (
            "New parents may stay at home for sixteen weeks on full pay.",
            "We are expecting a baby: what are my options?",
        ),
        (
            "Report sick before nine in the morning by calling your team lead.",
            "I have the flu, whom do I need to tell?",
        ),
        (
            "The notice period is three months to the end of a quarter.",
            "How long before quitting must I announce it?",
        ),
        (
            "Working from another country is possible for up to 30 days a year.",
            "Could I do my job from Spain for a while?",
        ),
        (
            "Each person has a budget of 1,200 euros for courses and conferences.",
            "Does the firm pay for further education?",
        ),
        (
            "Reviews with your manager take place in March and September.",
            "When do we discuss how I am doing?",
        ),
    ],
    "handbook/office.md": [
        (
            "The front door is locked at 19:00; after that the badge opens the side entrance.",
            "How can I get into the building late in the evening?",
        ),
        (
            "Dogs are welcome on Wednesdays if nobody in the room objects.",
            "May I bring my pet to work?",
        ),
        (
            "The large meeting room seats twenty and is booked in the calendar.",
            "Where could we gather with the whole department?",
        ),
        (
            "Bicycles go into the cellar, not into the corridor.",
            "Where do I leave what I ride to work on?",
        ),
        (
            "Lunch is delivered at noon; order by ten in the canteen app.",
            "How do I get something to eat around midday?",
        ),
        (
            "The heating goes off at weekends, so bring a jumper.",
            "Why is it so cold here on Saturdays?",
        ),
        (
            "Visitors sign in at reception and wear a yellow badge.",
            "A client drops by tomorrow, what is the procedure?",
        ),
        (
            "Empty the dishwasher if you find it clean.",
            "Who takes care of the crockery?",
        ),
    ],
    "engineering/deploys.md": [
        (
            "We never ship on Fridays, except for fixes of security holes.",
            "Can I release this right before the weekend?",
        ),
        (
            "A rollback takes one command: make revert, followed by the number of the build.",
            "How do I undo a bad release?",
        ),
        (
            "Migrations run before the new code starts and must work with the old one as well.",
            "In which order are schema changes applied?",
        ),
        (
            "The staging cluster is rebuilt every night at two.",
            "When is our test environment reset?",
        ),
        (
            "Feature flags live in Unleash and are removed a month after launch.",
            "Where do we switch unfinished functionality on and off?",
        ),
        (
            "Container images are kept for ninety days.",
            "How far back can I find old builds?",
        ),
        (
            "Two approvals are needed to merge into main.",
            "How many colleagues must review my pull request?",
        ),
        (
            "Secrets are stored in the vault and never in the repository.",
            "Where should I put the password of the database?",
        ),
    ],
    "engineering/incidents.md": [
        (
            "Whoever is on call acknowledges the page within five minutes.",
            "How fast do I have to react to an alarm at night?",
        ),
        (
            "The outage of 3 March was caused by an expired certificate.",
            "Why was everything down in spring?",
        ),
        (
            "Write the post-mortem within a week, without naming a culprit.",
            "By when do I have to document what went wrong?",
        ),
        (
            "The queue backs up when Redis runs out of memory; restart the consumers one by one.",
            "Jobs are piling up, what should I do?",
        ),
        (
            "Status updates for customers are published by the support team only.",
            "Who informs clients while the service is broken?",
        ),
        (
            "The backup of the orders database is restored with pgbackrest to any minute of the last two weeks.",
            "Somebody deleted purchases by accident, can we get them back?",
        ),
    ],
    "customers/acme.md": [
        (
            "Acme renews its contract in November and wants a discount for three years.",
            "When is that client's agreement up for extension?",
        ),
        (
            "Their head of purchasing is Ingrid Solberg, who prefers calls over mail.",
            "Who decides about buying there, and how do I reach her?",
        ),
        (
            "They were unhappy about slow answers from support last summer.",
            "What did they complain about?",
        ),
        (
            "Their data must stay within the European Union.",
            "Are there restrictions on where we host their records?",
        ),
        (
            "Invoices go to accounts payable with the purchase order's number on them.",
            "What has to be on the bill that we send?",
        ),
    ],
    "customers/harbour.md": [
        (
            "The harbour authority runs our software on its own machines, without internet.",
            "Which customer is self-hosted and offline?",
        ),
        (
            "Upgrades there are carried on a USB stick by Tomasz twice a year.",
            "How does a new version get to the port?",
        ),
        (
            "Their operators work in three shifts and are trained in small groups.",
            "How do we teach the staff at the docks?",
        ),
        (
            "The crane controllers speak Modbus over a serial line.",
            "Which protocol do the lifting machines use?",
        ),
    ],
    "user/taste.md": [
        (
            "Prefers short answers with bullet points.",
            "What style of reply does this person like?",
        ),
        (
            "Is allergic to peanuts and avoids all nuts.",
            "What must not be in the food I order for her?",
        ),
        (
            "Has been a vegetarian since 2019.",
            "Would a steakhouse be a good choice for dinner?",
        ),
        (
            "Likes window seats and flies only in the morning.",
            "How should I book the plane?",
        ),
        (
            "Learns Portuguese because the in-laws live in Porto.",
            "Which foreign language is she studying, and why?",
        ),
        (
            "Runs half marathons and trains at six before breakfast.",
            "What sport does she do?",
        ),
        (
            "Cannot stand phone calls before ten.",
            "At what hour is it too early to ring?",
        ),
    ],
    "family/house.md": [
        (
            "The gas boiler was replaced in 2021 and has a warranty of ten years.",
            "Is the heater still covered if it breaks?",
        ),
        (
            "The roof leaks above the guest room when the wind comes from the west.",
            "Where does water come in during storms?",
        ),
        (
            "The plumber is Mr Okafor, 0171 555 0199.",
            "Whom do I phone about a dripping tap?",
        ),
        (
            "The fuse box is behind the coats in the hall.",
            "The lights went out, where do I look?",
        ),
        (
            "Bins are emptied every second Tuesday.",
            "When is the rubbish collected?",
        ),
        (
            "The neighbours water the tomatoes while we are away.",
            "Who looks after the garden during our holidays?",
        ),
        (
            "The wifi is called Albatross and its code hangs inside the kitchen cupboard.",
            "How do guests get online?",
        ),
    ],
    "family/children.md": [
        (
            "Lena has her cello lesson on Thursdays at four.",
            "What musical instrument does our daughter play?",
        ),
        (
            "Jonas is afraid of deep water since the accident at the lake.",
            "Why does he refuse to go swimming?",
        ),
        (
            "The school closes at noon on the last day before Christmas.",
            "When do lessons end before the winter break?",
        ),
        (
            "The paediatrician's practice is on Mill Lane, second floor.",
            "Where is the doctor for the kids?",
        ),
        (
            "Both get pocket money on the first of the month, eight euros each.",
            "How much allowance do they receive?",
        ),
        (
            "Grandma picks them up on Mondays.",
            "Who collects them from school at the start of the week?",
        ),
    ],
    "travel/japan.md": [
        (
            "We slept in a temple on Mount Koya and got up at five for the prayer.",
            "In which monastery did we spend a night?",
        ),
        (
            "Cash is needed in small restaurants; cards often do not work.",
            "How does one pay when eating out over there?",
        ),
        (
            "The rail pass paid for itself after two rides on the Shinkansen.",
            "Was the ticket for the fast trains worth its price?",
        ),
        (
            "Cherry trees bloomed in the first days of April.",
            "When were the blossoms at their best?",
        ),
        (
            "Maya left her camera in a taxi in Kyoto and got it back the same evening.",
            "What did we lose during the trip?",
        ),
    ],
    "health/notes.md": [
        (
            "Take the iron tablets with orange juice, never with coffee.",
            "What should I drink with my supplement?",
        ),
        (
            "The next tetanus shot is due in 2031.",
            "When do I need a booster vaccination?",
        ),
        (
            "Blood pressure was 128 over 82 at the check-up in May.",
            "What were my values at the last medical examination?",
        ),
        (
            "The knee hurts after more than ten kilometres on asphalt.",
            "What happens when I jog too far on hard ground?",
        ),
        (
            "Dr Brandt suggested sleeping with the window open.",
            "What did the physician advise for better nights?",
        ),
        (
            "Penicillin causes a rash.",
            "Which antibiotic do I not tolerate?",
        ),
    ],
    "finance/plan.md": [
        (
            "The mortgage has a fixed rate of 1.9 percent until 2029.",
            "What interest do we pay on the home loan?",
        ),
        (
            "A tenth of every pay cheque goes into the index fund.",
            "How much of our income do we invest?",
        ),
        (
            "The tax return is due at the end of July.",
            "What is the deadline for the declaration to the authorities?",
        ),
        (
            "The car is insured against theft but not against hail.",
            "Would we be compensated for damage by ice from the sky?",
        ),
        (
            "We keep three months of expenses in the savings account.",
            "How big is our cushion for emergencies?",
        ),
        (
            "The old flat was sold for 312,000 euros.",
            "What did the apartment bring in?",
        ),
    ],
    "research/reading.md": [
        (
            "Sleep deprivation hurts memory more than a glass of wine does, according to Walker.",
            "Is being tired worse for remembering things than alcohol?",
        ),
        (
            "Octopuses have three hearts and blue blood.",
            "What is odd about the circulation of those sea animals?",
        ),
        (
            "The Romans mixed volcanic ash into their concrete, which is why it still stands.",
            "How come ancient buildings have lasted so long?",
        ),
        (
            "Bees dance to tell each other where flowers are.",
            "How do insects share directions to nectar?",
        ),
        (
            "Trees in a forest trade sugar through networks of fungi.",
            "How do plants exchange food underground?",
        ),
        (
            "The printing press made books cheap enough for merchants to own.",
            "Which invention let ordinary traders have a library?",
        ),
    ],
    "product/decisions.md": [
        (
            "We dropped the mobile app because only two percent used it.",
            "Why is there no version for phones any more?",
        ),
        (
            "Prices rise by eight percent in January for new contracts only.",
            "Will existing clients have to pay more next year?",
        ),
        (
            "The dark theme became the default after a survey among users.",
            "Why does the interface start out black?",
        ),
        (
            "Search was moved from Elasticsearch to PostgreSQL to have one system less to run.",
            "What replaced our full-text engine, and for what reason?",
        ),
        (
            "The trial lasts fourteen days and asks for no credit card.",
            "For how long can people try it for free?",
        ),
        (
            "Exports are limited to a million rows.",
            "What is the largest amount of data one can download?",
        ),
    ],
    "learnings/tools.md": [
        (
            "The invoice parser fails on scanned PDFs; run OCR on them first.",
            "Why can't the bill reader cope with photographed documents?",
        ),
        (
            "The weather service allows sixty requests a minute and then answers 429.",
            "How often may I query the forecast?",
        ),
        (
            "Dates in the CRM export are in American order.",
            "Is it month or day first in the file of contacts?",
        ),
        (
            "The translation API garbles names, so replace them by placeholders.",
            "How do I keep persons from being changed into another language?",
        ),
        (
            "Use the cheap model for summaries and the large one for planning.",
            "Which LLM should write the abstract?",
        ),
        (
            "The printer on the third floor needs its paper tray pulled out twice.",
            "What is the trick with the device that puts things on paper?",
        ),
    ],
    "projects/orchard.md": [
        (
            "Orchard is led by Priya, with Daniel as her deputy.",
            "Who stands in when the head of the project is away?",
        ),
        (
            "The first milestone is a prototype that a farmer can hold in his hands by June.",
            "What has to be finished by early summer?",
        ),
        (
            "Sensors send a reading of soil moisture every ten minutes.",
            "How frequently is the dampness of the ground measured?",
        ),
        (
            "Batteries last two winters if the radio sleeps between readings.",
            "For how long do the devices run without being charged?",
        ),
        (
            "The grant from the ministry covers forty percent of the cost.",
            "What share does the government finance?",
        ),
        (
            "The field trial in Bavaria was spoiled by slugs that ate the cables.",
            "What ruined the experiment outdoors?",
        ),
    ],
}

PAIRS: list[tuple[str, str, str]] = [
    (path, note, question) for path, notes in NOTES.items() for note, question in notes
]
CHOSEN_ON, KEPT_ASIDE = PAIRS[::2], PAIRS[1::2]


def content_of(path: str) -> str:
    """Return the document's Markdown: a heading and one note to a line."""
    title = path.removesuffix(".md").replace("/", ": ")
    return f"# {title}\n" + "\n".join(note for note, _ in NOTES[path])
