"""Families of corpus jobs by name. Each has COUNT, how many there are, and job(index, random) -> job.Job."""

from families import models

FAMILIES = {**models.FAMILIES}
