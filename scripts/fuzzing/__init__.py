"""Any bytes at any reader: an answer or an error of ours, in bounded time and memory."""
