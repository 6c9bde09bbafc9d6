"""Runs a program for a script, and says why where it fails."""

import shlex
import subprocess
import sys


def output_of(words):
    """What the program prints. Where its exit code is not 0, the script ends with its words and its messages."""
    words = [str(word) for word in words]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{shlex.join(words)}\nended with exit code {done.returncode}:\n{done.stderr}")
    sys.stderr.write(done.stderr)
    return done.stdout
