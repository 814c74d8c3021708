"""Families of corpus jobs by name. Each has COUNT, how many there are, and job(index, random) -> job.Job."""

from families import collectives, inception, models, ours

FAMILIES = {**models.FAMILIES, **collectives.FAMILIES, **inception.FAMILIES, **ours.FAMILIES}
