"""Pages for people: workflows, their list, how one is started, and one as it runs."""
