"""Models, tensors, requests, limits and metrics of the Open Inference Protocol."""
