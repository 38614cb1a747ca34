"""Model providers behind one Protocol."""
