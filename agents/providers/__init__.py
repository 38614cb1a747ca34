"""Model providers: their adapters, keys and HTTP clients."""
