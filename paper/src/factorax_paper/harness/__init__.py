"""Code shared by all experiments: resumable parts, tables, claims, sweeps, training runs."""
