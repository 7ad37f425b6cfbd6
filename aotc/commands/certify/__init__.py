"""Running a bundle under other versions of what runs it, each in an environment of its own."""
