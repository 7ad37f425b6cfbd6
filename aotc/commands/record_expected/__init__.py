"""`aotc record-expected`: what the framework of a model file computes for recorded inputs."""
