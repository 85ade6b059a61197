# plimsoll in an image: docker build --tag plimsoll .
#   docker run --rm --user "$(id -u)" -v "$PWD:/data" plimsoll demo
# The first stage builds the wheel, the second has nothing but Python, the wheel, and Poppler's programs, by which PDF
# files are read.
FROM debian:12 AS build
COPY . /source
RUN apt-get update && apt-get install -y --no-install-recommends python3 python3-venv ca-certificates \
  && /source/scripts/build_wheel.sh --no-check

FROM debian:12-slim
RUN apt-get update && apt-get install -y --no-install-recommends python3 python3-venv poppler-utils \
  && rm -rf /var/lib/apt/lists/*
COPY --from=build /source/build/wheel/dist /tmp/dist
RUN python3 -m venv /opt/plimsoll && /opt/plimsoll/bin/pip install --no-cache-dir /tmp/dist/*.whl && rm -r /tmp/dist \
  && useradd --create-home plimsoll
ENV PATH=/opt/plimsoll/bin:$PATH
USER plimsoll
WORKDIR /data
ENTRYPOINT ["plimsoll"]
