"""Competitions with code submissions: contract, containment, scoring, service, leaderboard."""
