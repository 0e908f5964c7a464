"""Lessons as pages: what targets teach, their code step by step, their mechanisms drawn, and a course of them."""
