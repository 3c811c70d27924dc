"""How a judgement is shown: charts, a page, JUnit."""
