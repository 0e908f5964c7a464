"""A made-up NVML for tests of several modules."""


class NVMLError(Exception):
    """As nvidia-ml-py raises it: with NVML's number of the error."""

    def __init__(self, text="Not Supported", value=3):
        super().__init__(text)
        self.value = value


class Driver:
    """Answers by the names of NVML's functions. It has nothing that sets anything: a call of such a function would raise.

    An exception among the answers is raised, a function is called.

    asked: the functions that were called, with their arguments.
    open: how often it was started and not yet shut down.
    """

    NVMLError = NVMLError
    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0

    def __init__(self, **answers):
        self.answers = {"Init": None, "Shutdown": None, **answers}
        self.asked, self.open = [], 0

    def __getattr__(self, name):
        function = name.removeprefix("nvml")
        if function == name or function not in self.answers:
            raise AttributeError(name)

        def answer(*arguments):
            self.asked.append((function, *arguments))
            value = self.answers[function]
            if isinstance(value, Exception):
                raise value
            self.open += {"Init": 1, "Shutdown": -1}.get(function, 0)
            return value(*arguments) if callable(value) else value

        return answer

    def times(self, function):
        return sum(name == function for name, *_ in self.asked)
