"""Plans of a training run: layouts, memory and cost by device."""
