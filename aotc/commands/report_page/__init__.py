"""`aotc report`: a bundle as one HTML page for reviewers, its parts and how they are rendered."""
