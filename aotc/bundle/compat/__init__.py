"""Which target of a bundle runs where, before anything is deployed."""
