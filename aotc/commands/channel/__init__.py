"""`aotc channel`: TUF metadata that say which bundle is deployed, signed and with an end."""
