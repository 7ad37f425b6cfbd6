"""Running the tasks of a build: side by side, counted, stoppable, and looked up in the cache."""
