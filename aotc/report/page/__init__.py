"""A bundle as one page for reviewers: what every part of the page says, and how it is drawn."""
