package main

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// franz is a member with franz-go, which has both protocols; the new one it uses only for who opts in.
func franz(ctx context.Context, m *member) error {
	balancers := map[string]kgo.GroupBalancer{"range": kgo.RangeBalancer(), "sticky": kgo.StickyBalancer(),
		"cooperative-sticky": kgo.CooperativeStickyBalancer(), "uniform": kgo.StickyBalancer()}
	inside := context.Background()
	if m.wanted["protocol"] == "consumer" {
		inside = context.WithValue(inside, "opt_in_kafka_next_gen_balancer_beta", true) //nolint:staticcheck
	}
	options := []kgo.Opt{kgo.WithContext(inside), kgo.SeedBrokers(m.bootstrap), kgo.ClientID(m.wanted["name"]),
		kgo.ConsumerGroup(m.wanted["group"]), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.Balancers(balancers[m.wanted["assignor"]]), kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(),
		kgo.SessionTimeout(m.session()), kgo.HeartbeatInterval(heartbeat), kgo.MetadataMaxAge(time.Second), kgo.MetadataMinAge(100 * time.Millisecond),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, places map[string][]int32) { m.told(places, true) }),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, places map[string][]int32) { m.told(places, false) }),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, places map[string][]int32) { m.told(places, false) })}
	if m.wanted["pattern"] != "" {
		options = append(options, kgo.ConsumeTopics(m.wanted["pattern"]), kgo.ConsumeRegex())
	} else {
		options = append(options, kgo.ConsumeTopics(m.wanted["topic"]))
	}
	if m.wanted["instance"] != "" {
		options = append(options, kgo.InstanceID(m.wanted["instance"]))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		polling, done := context.WithTimeout(ctx, 100*time.Millisecond)
		fetches := client.PollFetches(polling)
		done()
		count := 0
		fetches.EachRecord(func(r *kgo.Record) {
			m.read(r.Topic, r.Partition, r.Offset, r.Value)
			count++
		})
		if count > 0 {
			if err := client.CommitUncommittedOffsets(context.Background()); err != nil {
				return err
			}
			m.hasCommitted(count)
		}
		client.AllowRebalance()
	}
	client.CloseAllowingRebalance()
	return nil
}
