# The router of compose.yaml: smg from its hash-locked wheel. docker build -f docker/router.Dockerfile -t specguard-router .
FROM python:3.11-slim-bookworm
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
COPY requirements/router.txt /requirements.txt
RUN python -m venv /smg \
 && /smg/bin/pip install --require-hashes -r /requirements.txt \
 && useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin router
ENV PATH=/smg/bin:$PATH
USER 10001
HEALTHCHECK --interval=10s --timeout=5s --retries=6 \
  CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:30000/readiness')"]
ENTRYPOINT ["smg"]
CMD ["--help"]
