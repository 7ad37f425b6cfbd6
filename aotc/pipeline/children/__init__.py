"""Child processes that run the user's code: how they are started, and what each of them does."""
