"""Metaflow's side of benchmarks.overhead, run by an interpreter that has it."""

from metaflow import FlowSpec, Parameter, step


class Noop(FlowSpec):
    """`count` tasks that do nothing."""

    count = Parameter("count", default=10)

    @step
    def start(self):
        self.items = list(range(self.count))
        self.next(self.work, foreach="items")

    @step
    def work(self):
        self.next(self.join)

    @step
    def join(self, inputs):
        self.next(self.end)

    @step
    def end(self):
        pass


if __name__ == "__main__":
    Noop()
