"""Read ELF objects and protobuf messages."""
