"""What all experiments share: parts that can be stopped and resumed, tables, claims, sweeps, trainings."""
