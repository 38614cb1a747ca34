"""The container sandbox, on the API that Docker and Podman share."""
