"""Who is who, what belongs to whom, and who may do what."""
