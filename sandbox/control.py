"""The sandbox's own addresses under /sandbox/: what was counted, faults, the truth, the lists."""

from __future__ import annotations

import json

from sandbox import truth
from sandbox.answers import Answer, json_answer
from sandbox.companies import Companies
from sandbox.counts import Counts
from sandbox.faults import BadFault, Faults
from sandbox.keys import SERVICES
from sandbox.server import Request

PREFIX = "/sandbox/"


class Control:
    """Answers for people and tests. Nothing here is counted or slowed down."""

    def __init__(self, companies: Companies, counts: Counts, faults: Faults) -> None:
        self._companies = companies
        self._counts = counts
        self._faults = faults

    def answer(self, request: Request) -> Answer:
        match request.method, request.path.removeprefix(PREFIX):
            case "GET", "stats":
                return json_answer(200, self._counts.stats())
            case "GET", "repeats":
                return json_answer(200, self._counts.repeats())
            case "POST", "reset":
                self._counts.reset()
                self._faults.arm_planted()
                return json_answer(200, {"reset": True})
            case _, "faults":
                return self._change_faults(request)
            case "GET", "truth" | "sample.csv" | "companies.csv":
                return self._about_companies(request)
        return json_answer(404, {"error": f"{request.method} {request.path} is no address of the sandbox"})

    def _change_faults(self, request: Request) -> Answer:
        match request.method:
            case "POST":
                try:
                    self._faults.add(json.loads(request.body))
                except (BadFault, ValueError) as error:
                    return json_answer(422, {"error": str(error)})
            case "DELETE":
                self._faults.clear()
        return json_answer(200, self._faults.shown())

    def _about_companies(self, request: Request) -> Answer:
        service = request.param("service") or ""
        if service not in SERVICES:
            return json_answer(422, {"error": f"service is one of {', '.join(SERVICES)}"})
        match request.path.removeprefix(PREFIX):
            case "sample.csv":
                return Answer(200, truth.sample_csv(self._companies, service).encode(), "text/csv")
            case "companies.csv":
                return Answer(200, truth.companies_csv(self._companies, service).encode(), "text/csv")
        number = request.param("company")
        if number is None:
            return json_answer(200, truth.of_all(self._companies, service))
        row = truth.of_company(self._companies, service, number)
        return json_answer(200, {} if row is None else {number: row})
