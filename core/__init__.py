"""Infrastructure that is independent of the product's models."""
