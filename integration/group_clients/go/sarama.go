package main

import (
	"context"
	"errors"
	"time"

	"github.com/IBM/sarama"
)

type handler struct{ m *member }

func (h handler) Setup(session sarama.ConsumerGroupSession) error {
	h.m.told(session.Claims(), true)
	return nil
}

func (h handler) Cleanup(session sarama.ConsumerGroupSession) error {
	h.m.told(session.Claims(), false)
	return nil
}

func (h handler) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	count := 0
	for {
		select {
		case message := <-claim.Messages():
			if message == nil {
				return nil
			}
			h.m.read(message.Topic, message.Partition, message.Offset, message.Value)
			session.MarkMessage(message, "")
			count++
			if len(claim.Messages()) == 0 { // a commit waits behind a fetch, since both have one connection
				session.Commit()
				h.m.hasCommitted(count)
				count = 0
			}
		case <-session.Context().Done():
			return nil
		}
	}
}

// saramaMember is a member with sarama, which has the classic protocol only.
func saramaMember(ctx context.Context, m *member) error {
	strategies := map[string]sarama.BalanceStrategy{"range": sarama.NewBalanceStrategyRange(),
		"roundrobin": sarama.NewBalanceStrategyRoundRobin(), "sticky": sarama.NewBalanceStrategySticky()}
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.ClientID = m.wanted["name"]
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.MaxWaitTime = 100 * time.Millisecond
	config.Consumer.Group.Session.Timeout = m.session()
	config.Consumer.Group.Heartbeat.Interval = heartbeat
	config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{strategies[m.wanted["assignor"]]}
	config.Consumer.Group.InstanceId = m.wanted["instance"]
	group, err := sarama.NewConsumerGroup([]string{m.bootstrap}, m.wanted["group"], config)
	if err != nil {
		return err
	}
	for ctx.Err() == nil { // one session after the other: each ends with a rebalance
		if err := group.Consume(ctx, []string{m.wanted["topic"]}, handler{m}); errors.Is(err, sarama.ErrClosedConsumerGroup) {
			return err
		}
	}
	return group.Close()
}
