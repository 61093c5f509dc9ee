"""Does the contamination score tell trained models from others?"""
