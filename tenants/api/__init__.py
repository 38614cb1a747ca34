"""The REST doors of tenants, and the base that every app's doors extend."""
