"""Lint of Dockerfiles, Slurm scripts and Kubernetes manifests: settings that cost performance, or that do nothing."""
