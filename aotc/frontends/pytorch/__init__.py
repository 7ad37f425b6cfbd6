"""PyTorch: archives of `torch.export` (`.pt2`), read without torch.

An archive is a zip of a graph as JSON and of raw weights (`archive`, `schema`, `weights`). A graph
is checked as a whole (`check`), then interpreted with functions of jax.numpy (`operators`).
"""
