"""`aotc operators`: which operators of a framework its frontend has."""
