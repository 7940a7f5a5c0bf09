"""A serving engine of one process that can be profiled: a loop that steps, and the endpoint that asks for profiles."""

import threading

from pytest_gputrace.control import ControlServer, Coordinator, Endpoint, LocalWorker, Session


class MyEngine:
    def __init__(self, profiles):
        self.session = Session(coordinates={"TP": 0})  # one for each worker process, before its first step
        workers = Coordinator([LocalWorker(self.session)])
        self.control = ControlServer(Endpoint(workers, allowed_dir=profiles))

    def run(self, batches):
        for stage, tokens in batches:
            with self.session.step(stage):  # half a microsecond while nothing is recorded
                forward(tokens)

    def close(self):
        self.control.close()
        self.session.close()  # a window that is open then is written


def forward(tokens):
    return sum(token * token for token in tokens)


def serve(engine, batches):
    """Run the loop in a thread of its own, as engines do."""
    thread = threading.Thread(target=engine.run, args=(batches,))
    thread.start()
    thread.join()
