"""Builder mode: an agent that builds agents, its sessions, and previews of what it builds."""
