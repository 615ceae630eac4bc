"""`fencepost init`: a commented file for a worker."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from fencepost.api.errors import ConfigError

WORKER_FILE: Final = """\
# A worker of a group. Run it with: fencepost worker {file}
# Every property is described in docs/configuration.md.

# Some of the Kafka brokers, as host:port,host:port.
bootstrap.servers=127.0.0.1:9092

# Workers of one group.id share connectors and tasks. They must agree on it and on the three topics below, and no other
# group on the Kafka cluster may have any of them.
group.id=connect

# Records and source offsets are committed in one transaction. Required for exactly-once delivery.
exactly.once.source.support=enabled

# The topics for source offsets, configurations and states. They are created if they are missing, with 3 replicas, or
# with 1 in a cluster with a single broker.
offset.storage.topic=connect-offsets
config.storage.topic=connect-configs
status.storage.topic=connect-status
#offset.storage.replication.factor=3
#config.storage.replication.factor=3
#status.storage.replication.factor=3

# The converters of record keys and values, for connectors that set none. A connector that names a converter sets all of
# its properties itself.
key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
value.converter.schemas.enable=false

# The address of the REST API. Other workers must reach it: on several machines, use a network address, and restrict
# access (rest.basic.auth.credentials.file, https, or a firewall).
listeners=http://127.0.0.1:8083
#rest.advertised.host.name=worker1.example.com

# The time without a heartbeat after which a worker's tasks go to others, and the time that they wait for its return.
#session.timeout.ms=10000
#scheduled.rebalance.max.delay.ms=10000

# Directories, comma-separated, of your own connectors, converters and transforms.
#plugin.path=/opt/connectors

# Directories and files, comma-separated, that file connectors may read, with everything below them: by default the
# worker's working directory, or nothing if that is a directory of the system. Give all workers of a group the same.
#fencepost.files.allowed.paths=/var/lib/fencepost

# Values for placeholders in configurations, such as passwords: ${{env:CONNECT_...}} and
# ${{file:/etc/fencepost/...:key}}. Every user who may configure connectors can read all values that these allow.
#config.providers=env,file
#config.providers.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider
#config.providers.env.param.allowlist.pattern=CONNECT_.*
#config.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider
#config.providers.file.param.allowed.paths=/etc/fencepost

# A Kafka cluster that requires authentication.
#security.protocol=SASL_SSL
#sasl.mechanism=SCRAM-SHA-512
#sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username="fencepost" password="...";
#ssl.truststore.type=PEM
#ssl.truststore.location=/etc/ssl/kafka-ca.pem

# Properties of the producers of all connectors, here the compression.
#producer.compression.type=zstd

# Spark, for transforms, DataFrames and large batches. See docs/spark-settings.md.
#spark.master=local[2]
#spark.driver.memory=1g
"""


@click.command()
@click.argument("file", type=click.Path(path_type=Path), default=Path("worker.properties"))
def init(file: Path) -> None:
    """Write a commented file for `fencepost worker`, worker.properties if none is named.

    An existing file is not changed.
    """
    try:
        stream = file.open("x", encoding="utf-8")
    except FileExistsError:
        raise ConfigError(f"{file} already exists: name another file, or remove it") from None
    except OSError as error:
        raise ConfigError(f"Cannot write {file}: {error.strerror}") from None
    try:
        with stream:
            stream.write(WORKER_FILE.format(file=file))
    except OSError as error:
        # A partly written file would block the name for the next attempt.
        file.unlink(missing_ok=True)
        raise ConfigError(f"Cannot write {file}: {error.strerror}") from None
    click.echo(f"Wrote {file}. Set bootstrap.servers and group.id in it, then: fencepost worker {file}")
