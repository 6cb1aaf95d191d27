"""Large backlogs through a vendor's batch jobs: what goes into them, their record, their life."""
