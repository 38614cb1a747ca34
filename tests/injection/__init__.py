"""A model that obeys every instruction in whatever it reads, against every profile and way out."""
