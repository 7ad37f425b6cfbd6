"""`aotc engines`: what each engine refuses of a program, and what its calls cost."""
