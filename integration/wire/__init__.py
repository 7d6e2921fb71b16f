"""A raw client of the Kafka protocol, small enough to send what no library would."""
