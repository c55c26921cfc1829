// reprise/agent: sessions of agents, one timeline each.
export {}
