"""Makes this a package: MuJoCo Playground installs one of the same name, which else comes first."""
