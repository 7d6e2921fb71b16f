"""What every integration suite shares: the cache of clients, brokers to test, Kafka's tools, the runner."""
