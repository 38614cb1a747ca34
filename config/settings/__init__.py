"""Settings: `base` is shared by `local`, `dev`, `production` and `test`."""
