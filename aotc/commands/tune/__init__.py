"""`aotc build --tune`: candidates, measured in turns on this host, and the choice among them."""
