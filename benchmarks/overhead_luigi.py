"""Luigi's side of benchmarks.overhead, run by an interpreter that has it: FOLDER COUNT WORKERS COMMAND..."""

import sys
from pathlib import Path

import luigi
from luigi.contrib.external_program import ExternalProgramTask

FOLDER, COUNT, WORKERS, *COMMAND = sys.argv[1:]


class Noop(ExternalProgramTask):
    """One process that does nothing."""

    index = luigi.IntParameter()

    def program_args(self):
        return COMMAND

    def output(self):
        return luigi.LocalTarget(str(Path(FOLDER) / str(self.index)))

    def run(self):
        super().run()
        with self.output().open("w"):
            pass


if __name__ == "__main__":
    tasks = [Noop(index=index) for index in range(int(COUNT))]
    done = luigi.build(tasks, workers=int(WORKERS), local_scheduler=True, log_level="WARNING")
    sys.exit(0 if done and len(list(Path(FOLDER).iterdir())) == int(COUNT) else 1)
