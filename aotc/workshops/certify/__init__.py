"""Running a bundle under other versions of jaxlib, each in an environment of its own."""
